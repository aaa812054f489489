"""surefoot inside other frameworks: one file each, imported only by whoever uses it."""
