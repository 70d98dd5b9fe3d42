"""The media room: moves samples between packets and frames; knows no model and no HTTP."""
