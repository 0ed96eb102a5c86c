"""What is played: for each scene its clusters, its processes, how its plans are drawn, and who acts."""
