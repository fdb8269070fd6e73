# a parser
