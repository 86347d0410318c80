// A program that is quick to copy, for the checks of programs.
#include <iostream>

int main() { std::cout << "small\n"; }
