"""What programs take from TensorFlow's python.framework.meta_graph that has no public name."""

from millrace.graph.meta_graph import (
    add_collection_def,
    copy_scoped_meta_graph,
    create_meta_graph_def,
    export_scoped_meta_graph,
    import_scoped_meta_graph,
    import_scoped_meta_graph_with_return_elements,
    ops_used_by_graph_def,
    read_meta_graph_file,
    strip_graph_default_valued_attrs,
    stripped_op_list_for_graph,
)
