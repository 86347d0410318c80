// Assigns rows to the row elements of a table. If none of the previous rows stays in view, the elements are reused for the new rows. Pure.

export class Slots {
  private names_: number[] = [];
  private first_ = 0;
  private made_ = 0;

  // Returns the keys of the elements for rows first … last. A row that was visible before keeps its key.
  of(first: number, last: number): number[] {
    const apart = first >= this.first_ + this.names_.length || last < this.first_;
    const names: number[] = [];
    for (let row = first; row <= last; row++) names.push(this.names_[apart ? row - first : row - this.first_] ?? this.made_++);
    this.names_ = names;
    this.first_ = first;
    return names;
  }
}
