"""The split of a data set whose features tools.cluster_features and tools.precompute_features encode."""
