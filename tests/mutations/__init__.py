"""One-line sabotages of the package, and the tests that must notice them."""
