"""The option that writes scenarios again."""


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the stories of scenarios again")
