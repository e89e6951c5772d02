// Everything is in the force-included prelude.
