"""Charts as SVG, each with a description in words; `svg` has the parts that they are drawn with."""
