"""Operations of comparing."""
