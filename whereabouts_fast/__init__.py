"""Node-slice IP address management for secondary pod networks in Kubernetes."""
