"""Parts of the standard library and of other packages on the cluster."""
