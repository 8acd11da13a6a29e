"""Geometry of the page's charts: pure functions from a report's data to places in a drawing, in pixels."""
