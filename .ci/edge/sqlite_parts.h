/* Leaves out of SQLite what the agent does not use: indexes of words and of places, JSON, and SQLite's own tests. */
#undef SQLITE_ENABLE_FTS3
#undef SQLITE_ENABLE_FTS3_PARENTHESIS
#undef SQLITE_ENABLE_RTREE
#define SQLITE_OMIT_JSON
#define SQLITE_UNTESTABLE
