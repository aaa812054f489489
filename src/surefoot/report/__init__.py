"""Tables, figures and pages from what the store holds; never imports torch."""
