"""A class whose gradebook knows the lesson: made once a module, emptied for each test."""

import pytest

from tests.autograder.room import Room


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Room:
    return Room(tmp_path_factory.mktemp("room"))


@pytest.fixture
def room(template: Room) -> Room:
    template.empty()
    return template
