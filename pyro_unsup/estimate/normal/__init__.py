"""Logistic-normal priors: covariances, the bound and its coordinate steps, one theta for all or for each example."""
