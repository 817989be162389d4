"""What the methods compute: how a head is trained, saved, loaded and applied. `disent_core.methods` declares them."""
