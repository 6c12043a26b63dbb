"""What runs once per node, in the DaemonSet."""
