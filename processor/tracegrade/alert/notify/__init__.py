"""Alert channels: one small file each."""
