# Runs PROGRAM and fails unless it answers 0 and prints what the regular expression in the file EXPECTED says, no more.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} answered ${result}:\n${output}")
endif()
if(NOT output MATCHES "^${expected}$")
  message(FATAL_ERROR "${PROGRAM} printed\n${output}\nwhich is not\n${expected}")
endif()
