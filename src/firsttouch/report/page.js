// The report without this script is complete; it adds what needs a click or a pointer.
"use strict";
