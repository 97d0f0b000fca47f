"""What is wrong with this machine and with what Greenroom needs around it?

``greenroom doctor`` looks at everything once, each look bounded, and changes nothing that lasts.
"""
