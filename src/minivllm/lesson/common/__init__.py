"""What every notebook uses: a load and its run, one step seen from outside, tables, checks of a reader's work."""
