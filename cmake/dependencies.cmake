# Debian 12's packages; scripts/setup installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ibverbs REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
