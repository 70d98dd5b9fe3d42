"""OpenAI Realtime over WebRTC: the data channel `oai-events`, current and beta event names."""
