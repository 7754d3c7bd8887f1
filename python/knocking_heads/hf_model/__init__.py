"""The model file of kha models for transformers; its ``*_kha.py`` are copied into model folders.

Importing this package needs transformers. Models made from its classes save the files with them.
"""

from .configuration_kha import KhaConfig
from .modeling_kha import KhaForCausalLM, KhaModel

KhaConfig.register_for_auto_class()
KhaModel.register_for_auto_class("AutoModel")
KhaForCausalLM.register_for_auto_class("AutoModelForCausalLM")

__all__ = ["KhaConfig", "KhaForCausalLM", "KhaModel"]
