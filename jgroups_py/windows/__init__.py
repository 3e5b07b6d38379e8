"""Pure data structures that several protocols share: windows, ranges."""
