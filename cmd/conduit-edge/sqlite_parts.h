/* Leaves out of SQLite what the agent does not use: indexes of words and of places, times, UTF-16, caches that
   connections share, and the tests of SQLite itself. */
#undef SQLITE_ENABLE_FTS3
#undef SQLITE_ENABLE_FTS3_PARENTHESIS
#undef SQLITE_ENABLE_RTREE
#define SQLITE_OMIT_COMPLETE
#define SQLITE_OMIT_DATETIME_FUNCS
#define SQLITE_OMIT_GET_TABLE
#define SQLITE_OMIT_PROGRESS_CALLBACK
#define SQLITE_OMIT_SHARED_CACHE
#define SQLITE_OMIT_TCL_VARIABLE
#define SQLITE_OMIT_UTF16
#define SQLITE_UNTESTABLE
