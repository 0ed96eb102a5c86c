"""What must hold at every moment of a run, one folder a scene."""
