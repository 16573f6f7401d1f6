"""What programs take from TensorFlow's python.estimator.export.export_lib without a public name."""

from millrace.estimator.export.receivers import (
    SINGLE_FEATURE_DEFAULT_NAME as _SINGLE_FEATURE_DEFAULT_NAME,
)
from millrace.estimator.export.receivers import SupervisedInputReceiver
from millrace.estimator.export.signatures import (
    EXPORT_TAGS as EXPORT_TAG_MAP,
)
from millrace.estimator.export.signatures import (
    build_all_signature_defs,
    get_temp_export_dir,
    get_timestamped_export_dir,
)
