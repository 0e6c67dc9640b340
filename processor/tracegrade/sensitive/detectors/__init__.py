"""One kind of personal data or secret a file, or a table of them."""
