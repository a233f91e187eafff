"""What lies behind `warmline.registry.Store`: records, files by content, installation, upkeep, names resolved."""
