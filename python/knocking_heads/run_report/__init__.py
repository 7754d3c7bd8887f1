"""What `kha curves` and `kha report` are made of: reading runs, statistics, figures, the page.

Loads neither torch nor the operators. The two programs put this folder's parent on the path and
import it by its own name, since importing it as a part of `knocking_heads` would load both.
"""
