// Which symbols leave the library: everything is hidden except what TERN_API marks.
#pragma once

#if defined(_WIN32) && !defined(TERN_STATIC)
#ifdef TERN_BUILDING
#define TERN_API __declspec(dllexport)
#else
#define TERN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define TERN_API __attribute__((visibility("default")))
#else
#define TERN_API
#endif
