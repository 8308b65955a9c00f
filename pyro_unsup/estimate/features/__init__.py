"""Tables as functions of the weights of features: templates, their matrices, and how weights are found."""
