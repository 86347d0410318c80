// Which of a table's row elements shows which row: where none of those in sight stays, the elements take over the new ones. Pure.

export class Slots {
  private names_: number[] = [];
  private first_ = 0;
  private made_ = 0;

  // For the rows first … last of this drawing: the names of their elements. A row that was in sight before keeps its own.
  of(first: number, last: number): number[] {
    const apart = first >= this.first_ + this.names_.length || last < this.first_;
    const names: number[] = [];
    for (let row = first; row <= last; row++) names.push(this.names_[apart ? row - first : row - this.first_] ?? this.made_++);
    this.names_ = names;
    this.first_ = first;
    return names;
  }
}
