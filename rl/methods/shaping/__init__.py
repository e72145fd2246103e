"""Methods that change the advantages of a group, most of them token by token."""
