# Runs PROGRAM, through EMULATOR (words separated by commas) if one is given. Fails unless the program exits with 0 and
# its whole output matches the regular expression in the file EXPECTED.
string(REPLACE "," ";" EMULATOR "${EMULATOR}")
execute_process(COMMAND ${EMULATOR} ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} answered ${result}:\n${output}")
endif()
if(NOT output MATCHES "^${expected}$")
  message(FATAL_ERROR "${PROGRAM} printed\n${output}\nwhich is not\n${expected}")
endif()
