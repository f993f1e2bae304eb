"""A trained policy as a file that reproduces its actions by itself: ONNX, safetensors or NumPy."""

from pgsom.exporting.files import FORMATS, Exported, export
from pgsom.exporting.recipe import Recipe, recipe_of

__all__ = ["FORMATS", "Exported", "Recipe", "export", "recipe_of"]
