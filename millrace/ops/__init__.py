"""Ops by family: signature, shape rule, kernel and gradient of each, and its public function."""
