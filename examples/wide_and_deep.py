"""Wide and deep on a census: a canned Estimator, feature columns, `train_and_evaluate`.

People are made up: age, education, occupation, hours and capital gain decide, with some chance,
whether somebody earns more than 50,000 a year. The columns are those of the well-known tutorial.
"""

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("model_dir", "/tmp/millrace-census", "checkpoints and the exported model")
flags.DEFINE_integer("train_steps", 600, "steps of all workers together")
flags.DEFINE_integer("batch_size", 64, "people a step")
flags.DEFINE_integer("people", 6000, "how many there are to learn from")
flags.DEFINE_integer("eval_rows", 1000, "how many there are to evaluate with")
FLAGS = flags.FLAGS

EDUCATION = ["School", "College", "Bachelors", "Masters", "Doctorate"]
OCCUPATION = ["Sales", "Craft", "Tech", "Service", "Farming", "Exec"]
RELATION = ["Husband", "Wife", "Own-child", "Unmarried"]


def census(count, seed):
    """Columns of made-up people, and who earns more than 50,000."""
    random = np.random.RandomState(seed)
    age = random.randint(17, 80, count)
    education = random.randint(0, len(EDUCATION), count)
    occupation = random.randint(0, len(OCCUPATION), count)
    hours = np.clip(random.normal(40, 10, count), 5, 90)
    gain = np.where(random.rand(count) < 0.1, random.gamma(2.0, 4000.0, count), 0.0)
    liking = np.array([0.2, -0.4, 0.9, -0.8, -1.2, 1.3])[occupation]
    score = (
        0.8 * (education - 2)
        + liking * (1 + 0.3 * education)
        + 0.04 * (hours - 40)
        - ((age - 48) / 16.0) ** 2
        + gain / 3000.0
    )
    label = score + random.logistic(size=count) * 0.5 > 0.0
    features = {
        "age": age.astype(np.float32),
        "hours_per_week": hours.astype(np.float32),
        "capital_gain": gain.astype(np.float32),
        "education": np.array(EDUCATION)[education],
        "occupation": np.array(OCCUPATION)[occupation],
        "relationship": np.array(RELATION)[random.randint(0, len(RELATION), count)],
    }
    return features, label.astype(np.int32)


def input_fn(count, seed, repeat):
    features, labels = census(count, seed)
    people = tf.data.Dataset.from_tensor_slices((features, labels))
    if repeat:
        people = people.shuffle(count, seed=seed).repeat()
    return people.batch(FLAGS.batch_size).prefetch(1)


def columns():
    """Those of the wide half, and those of the deep one."""
    fc = tf.feature_column
    age = fc.numeric_column("age")
    hours = fc.numeric_column("hours_per_week", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    gain = fc.numeric_column("capital_gain", normalizer_fn=lambda x: tf.log1p(x) / 10.0)
    education = fc.categorical_column_with_vocabulary_list("education", EDUCATION)
    relation = fc.categorical_column_with_vocabulary_list("relationship", RELATION)
    occupation = fc.categorical_column_with_hash_bucket("occupation", 1000)
    ages = fc.bucketized_column(age, [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    wide = [
        ages,
        education,
        relation,
        occupation,
        fc.crossed_column(["education", "occupation"], 1000),
        fc.crossed_column([ages, "education", "occupation"], 1000),
    ]
    deep = [
        fc.indicator_column(ages),
        hours,
        gain,
        fc.indicator_column(education),
        fc.indicator_column(relation),
        fc.embedding_column(occupation, dimension=8),
    ]
    return wide, deep


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    wide, deep = columns()
    model = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=FLAGS.model_dir,
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[32, 16],
        dnn_optimizer=lambda: tf.train.AdagradOptimizer(0.05),
        linear_optimizer=lambda: tf.train.FtrlOptimizer(0.05, l1_regularization_strength=0.01),
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=200),
    )
    parsing = tf.feature_column.make_parse_example_spec(wide + deep)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(parsing)
    tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(lambda: input_fn(FLAGS.people, 1, True), FLAGS.train_steps),
        tf.estimator.EvalSpec(
            lambda: input_fn(FLAGS.eval_rows, 2, False),
            steps=None,
            start_delay_secs=0,
            throttle_secs=0,
            exporters=tf.estimator.FinalExporter("census", receiver),
        ),
    )


if __name__ == "__main__":
    tf.app.run(main)
