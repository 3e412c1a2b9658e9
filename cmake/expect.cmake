# Runs PROGRAM (by EMULATOR, its arguments by commas, where there is one) and fails unless it answers 0 and prints what
# the regular expression in the file EXPECTED says, no more.
string(REPLACE "," ";" EMULATOR "${EMULATOR}")
execute_process(COMMAND ${EMULATOR} ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} answered ${result}:\n${output}")
endif()
if(NOT output MATCHES "^${expected}$")
  message(FATAL_ERROR "${PROGRAM} printed\n${output}\nwhich is not\n${expected}")
endif()
