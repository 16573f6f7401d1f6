"""Models as TF1 programs write them, in the form in which their shapes change with each batch.

Each is a function of `tf`, run unchanged on Millrace and on TensorFlow. It builds into the default
graph and returns a `Model`. `MODELS` is the table that `benchmarks/models.py` measures.
"""

from model_zoo import click, control, loops, text, vision
from model_zoo.model import Model

#: Name: (what it is, the function).
MODELS = {
    "wide_and_deep": ("wide & deep: hashed strings, crosses, Ftrl + Adagrad", click.wide_and_deep),
    "deepfm": ("DeepFM: 26 fields, 6 with several values", click.deepfm),
    "dlrm": ("DLRM: bags of ids, pairwise products", click.dlrm),
    "embedding_mlp": ("embedding rows concatenated into an MLP", click.embedding_mlp),
    "factorisation": ("matrix factorisation 1M x 32, Adam", click.matrix_factorisation),
    "records": ("queue of TFRecords, parse_example", click.records),
    "bidirectional_rnn": ("bidirectional GRU, lengths change", text.bidirectional_rnn),
    "text_cnn": ("text CNN, padded to the longest", text.text_cnn),
    "word2vec": ("word2vec with its own sampler", text.word2vec),
    "transformer": ("transformer, lengths change", text.transformer),
    "seq2seq": ("seq2seq with attention, lengths change", text.seq2seq),
    "dynamic_rnn": ("dynamic_rnn of LSTM cells, clipped Adam", loops.dynamic_rnn),
    "while_gradient": ("while_loop with gradients", loops.while_gradient),
    "scan_gradient": ("scan with gradients", loops.scan_gradient),
    "cond_while": ("cond and while", loops.cond_while),
    "resnet20": ("ResNet-20, batch norm, momentum", vision.resnet20),
    "inference": ("inference, batch sizes change", control.inference),
    "many_variables": ("500 variables", control.many_variables),
    "a3c": ("A3C, rollouts of changing lengths", control.a3c),
}

__all__ = ["MODELS", "Model"]
