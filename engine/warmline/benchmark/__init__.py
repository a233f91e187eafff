"""What a variant costs: base, adapter at run time and merged model measured side by side, each in fresh processes.

`subjects` says what stands beside each other, `measure` is one measurement in a process of its own (`worker`, which
`process` starts), `rounds` has them take turns, `report` holds what was found, `plots` and `page` draw it.
"""
