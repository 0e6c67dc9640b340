"""One file for each kind of channel; `registry` names them all."""
