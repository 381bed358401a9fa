/** In what a store differs from Amazon's. May be changed while it serves. */
export interface S3Quirks {
  /** Any request with an `x-amz-checksum-...` or trailer header is answered with 501. */
  rejectsChecksums?: boolean
  /** The framing of `aws-chunked` is stored as content. */
  keepsChunkFraming?: boolean
  /** Conditional creates overwrite. */
  ignoresIfNoneMatch?: boolean
  /** A missing key is 403, as without the right to list. */
  hidesMissingKeys?: boolean
  /** Objects per page of a listing, at most; default 1,000. */
  pageSize?: number
  /** Ranges are not heeded. */
  ignoresRanges?: boolean
  /** A range is answered with the one that begins so many bytes later. */
  shiftsRanges?: number
  /** As in a bucket with Object Lock: puts and parts without a digest or checksum are refused. */
  demandsChecksums?: boolean
  /** Sizes in listings are written so, whatever they are. */
  listsSizesAs?: string
}
