"""What the tests do not notice: faults planted in kernels and handlers, one at a time."""
