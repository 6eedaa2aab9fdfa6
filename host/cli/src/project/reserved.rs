//! Names of projects that would mean something else in one of the languages.

/// Words of a language, and what comes with it.
const WORDS: &str = "
abstract alloc and as assert async auto await become box break case class const continue core
crate def default del do double dyn elif else except export extern false final finally float
fn for from gen global howdah howdah-sdk if impl import in int is lambda let loop macro main
match mod move mut none nonlocal not or override pass priv proc-macro pub raise ref return
self static std super test trait true try type typeof unsafe unsized use virtual where while
with yield
";

/// Modules of Python: one beside the operator would take their place, for the SDK and for all others.
const MODULES: &str = "
abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb
binascii bisect builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop collections
colorsys compileall concurrent configparser contextlib contextvars copy copyreg crypt csv
ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings
ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools
gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http
idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3
linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib
msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse
os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix
posixpath pprint profile pstats pty pwd pyclbr pydoc pyexpat queue quopri random re readline
reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal
site smtpd smtplib sndhdr socket socketserver spwd sqlite3 ssl stat statistics string
stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib
tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib trace
traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu uuid
venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile
zipimport zlib zoneinfo
";

/// Whether a project of this name would not build, or not pass its test.
pub(super) fn is_reserved(name: &str) -> bool {
    [WORDS, MODULES].iter().any(|list| list.split_whitespace().any(|word| word == name))
}
