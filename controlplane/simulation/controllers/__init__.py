"""Who acts inside a simulated cluster beside Kueue: the controller manager, kubelets, provisioners, Tekton."""
