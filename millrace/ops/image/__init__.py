"""Images: codecs, geometry, colours, boxes."""
