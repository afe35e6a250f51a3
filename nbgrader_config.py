c = get_config()
load_subconfig("autograder/nbgrader_config.py")
